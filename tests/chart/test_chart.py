"""The chart as Helm renders it, the manifests rendered from it, and the images built without a daemon."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("e2e", "structure")]
import e2e  # noqa: E402
from test_docs import table  # noqa: E402

CHART = e2e.ROOT / "charts/lockstep"


def helm(*arguments, check=True):
    return e2e.run(e2e.program("helm"), *arguments, check=check)


def rendered(*arguments, chart=CHART):
    """The text that Helm makes of the chart."""
    return helm("template", "lockstep", chart, "-n", "lockstep-system", "--kube-version", "1.30.0", *arguments).stdout


def render(*sets):
    text = rendered(*(word for value in sets for word in ("--set", value)))
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def flags(start, *sets):
    """The operator's arguments that begin so."""
    arguments = of_kind(render(*sets), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    return [word for word in arguments if word.startswith(start)]


@pytest.fixture(scope="module")
def documents():
    return render()


def test_lint_finds_nothing():
    said = helm("lint", "--strict", "--quiet", CHART).stdout
    assert "[ERROR]" not in said and "[WARNING]" not in said, said


def test_manifests_equal_the_rendered_chart():
    done = e2e.run(e2e.ROOT / "scripts/render-manifests.sh", "--check", check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        "replica=1",
        "replicas=0",
        "image.pullPolicy=Sometimes",
        "log.level=loud",
        "coordinator.port=80",
        "metrics.port=http",
        "watchNamespace=Team",
        "defaultBackend=Kueue",
        "topology[0].name=Rack",
        "avoidNodes={condition:XIDErrors}",
        "leaveNodes={node:XIDErrors}",
        "deadNodes={condition:XIDErrors}",
        "leaveUnhealthyDevices=sometimes",
        "topology[0].key=example.com/rack",
        "resources.claims={gpu}",  # the pod has no resourceClaims
    ],
)
def test_a_wrong_value_is_refused_by_the_schema(wrong):
    done = helm("template", "lockstep", CHART, "--kube-version", "1.30.0", "--set", wrong, check=False)
    assert done.returncode != 0
    assert wrong.split("=")[0].split(".")[-1] in done.stderr


def test_levels_of_the_topology_reach_the_operator_outermost_first():
    documents = render("topology[0].name=block", "topology[0].label=example.com/block",
                       "topology[1].name=rack", "topology[1].label=example.com/rack")
    arguments = of_kind(documents, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in arguments if word.startswith("--topology-level")] == [
        "--topology-level=block=example.com/block", "--topology-level=rack=example.com/rack"]


def test_signs_of_sick_nodes_reach_the_operator():
    assert flags("--avoid-nodes", "avoidNodes={preset:nvsentinel,condition:XIDErrors=True}") == [
        "--avoid-nodes=preset:nvsentinel", "--avoid-nodes=condition:XIDErrors=True"]


def test_signs_of_nodes_that_members_leave_reach_the_operator():
    assert flags("--leave") == []
    assert flags("--leave", "leaveNodes={preset:eks,taint:example.com/repair}", "leaveUnhealthyDevices=false") == [
        "--leave-nodes=preset:eks", "--leave-nodes=taint:example.com/repair", "--leave-unhealthy-devices=false"]


def test_signs_of_nodes_that_count_as_lost_reach_the_operator():
    assert flags("--dead-nodes") == []
    assert flags("--dead-nodes", "deadNodes={label:example.com/dead,taint:example.com/off=yes}") == [
        "--dead-nodes=label:example.com/dead", "--dead-nodes=taint:example.com/off=yes"]


def test_the_schema_knows_each_preset_of_signs():
    schema = (CHART / "values.schema.json").read_text()
    source = (e2e.ROOT / "operator/placement/sickness.cpp").read_text()
    presets = re.findall(r'^      \{"([a-z-]+)",', source, re.M)
    assert len(presets) == 7
    assert schema.count(f"preset:({'|'.join(presets)})") == 1 and schema.count("#/definitions/signs") == 3
    for text in ((e2e.ROOT / "operator/options.cpp").read_text(), (CHART / "values.yaml").read_text(),
                 (e2e.ROOT / "docs/placement.md").read_text()):
        assert [name for name in presets if not re.search(rf"\b{name}\b", text)] == []


def test_the_command_finds_the_operators_pod_by_its_labels(documents):
    labels = of_kind(documents, "Deployment")[0]["spec"]["template"]["metadata"]["labels"]
    source = (e2e.ROOT / "operator/cli/cluster_reading.cpp").read_text()
    wanted = re.search(r'kOperatorLabels = "(.*)"', source)[1].split(",")
    assert [word for word in wanted if labels.get(word.split("=")[0]) != word.split("=")[1]] == []


def test_every_value_has_a_comment_and_a_schema():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    lines = (CHART / "values.yaml").read_text().splitlines()

    def check(values, properties, path):
        for key, value in values.items():
            assert key in properties, f"{path}{key} is not in values.schema.json"
            if isinstance(value, dict) and value and "properties" in properties[key] and key != "resources":
                check(value, properties[key]["properties"], f"{path}{key}.")

    check(yaml.safe_load("\n".join(lines)), schema["properties"], "")
    assert sum(line.lstrip().startswith("# --") for line in lines) >= 20


def rules(documents):
    for document in of_kind(documents, "ClusterRole", "Role"):
        for rule in document["rules"]:
            yield document, rule


# The API group of each resource that is not in the core group.
GROUPS = {"tokenreviews": "authentication.k8s.io", "priorityclasses": "scheduling.k8s.io",
          "trainingjobs": "lockstep.dev", "trainingjobs/status": "lockstep.dev",
          "trainingjobs/finalizers": "lockstep.dev", "events": "events.k8s.io", "leases": "coordination.k8s.io",
          "endpointslices": "discovery.k8s.io"}


def rights_of_the_page():
    """scope -> {(group, resource): verbs}, as docs/install.md lists them."""
    rights = {}
    for scope, resources, verbs, _ in table((e2e.ROOT / "docs/install.md").read_text(), "Rights of the operator"):
        for resource in resources.split(", "):
            of_scope = rights.setdefault(scope, {})
            of_scope.setdefault((GROUPS.get(resource, ""), resource), set()).update(verbs.split(", "))
    return rights


def granted(documents, kind, namespace=None):
    """{(group, resource): verbs} of the roles of a kind in a namespace."""
    found = {}
    for document, rule in rules(documents):
        if (document["kind"], document["metadata"].get("namespace")) == (kind, namespace):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_the_roles_grant_what_the_page_lists(documents):
    page = rights_of_the_page()
    assert sorted(page) == ["cluster", "jobs", "own namespace"]
    assert page["cluster"].keys().isdisjoint(page["jobs"])
    assert granted(documents, "ClusterRole") == page["cluster"] | page["jobs"]
    assert granted(documents, "Role", "lockstep-system") == page["own namespace"]
    assert granted(render("watchNamespace=team"), "Role", "team") == page["jobs"]


def test_in_its_namespace_the_operator_changes_only_what_it_names(documents):
    for document, rule in rules(documents):
        if document["kind"] == "Role":
            assert rule.get("resourceNames") or rule["verbs"] == ["create"], rule


def cluster_wide(documents):
    """Verbs by resource that hold in every namespace."""
    granted = {}
    for document, rule in rules(documents):
        if document["kind"] == "ClusterRole":
            for resource in rule["resources"]:
                granted.setdefault(resource, set()).update(rule["verbs"])
    return granted


def test_watching_one_namespace_shrinks_the_permissions_to_it():
    documents = render("watchNamespace=team")
    # What pods of other namespaces take is read, never changed.
    assert cluster_wide(documents) == {
        "nodes": {"list", "watch"},
        "tokenreviews": {"create"},
        "pods": {"list", "watch"},
        "priorityclasses": {"list"},
    }
    in_team = {resource for document, rule in rules(documents) if document["metadata"].get("namespace") == "team"
               for resource in rule["resources"]}
    assert {"pods", "trainingjobs", "trainingjobs/status"} <= in_team
    arguments = of_kind(documents, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--watch-namespace=team" in arguments


@pytest.mark.parametrize("backend", ["Auto", "Lockstep"])
def test_pods_of_all_namespaces_are_read_where_the_operator_places_pods(backend):
    assert cluster_wide(render(f"defaultBackend={backend}", "watchNamespace=team"))["pods"] == {"list", "watch"}


def test_without_a_backend_no_pod_of_another_namespace_is_read():
    assert cluster_wide(render("defaultBackend=None", "watchNamespace=team")) == {
        "nodes": {"list", "watch"}, "tokenreviews": {"create"}}


@pytest.mark.parametrize(
    "sets, argument", [([], "auto"), (["defaultBackend=Lockstep"], "lockstep"), (["defaultBackend=None"], "none")]
)
def test_the_default_backend_reaches_the_operator(sets, argument):
    arguments = of_kind(render(*sets), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in arguments if word.startswith("--placement-backend")] == [f"--placement-backend={argument}"]


def test_the_operator_takes_every_argument_of_the_chart(tmp_path):
    documents = render("watchNamespace=team", "topology[0].name=rack", "topology[0].label=example.com/rack",
                       "leaveNodes={preset:aks}", "deadNodes={taint:example.com/off}", "leaveUnhealthyDevices=false")
    arguments = of_kind(documents, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    command = [e2e.BUILD / "bin/lockstep-operator", f"--kubeconfig={tmp_path}/none", "--agent-image=x", *arguments]
    done = subprocess.run(command, text=True, capture_output=True, timeout=30)
    assert f"{tmp_path}/none" in done.stdout + done.stderr, "it did not come as far as the kubeconfig"
    done = subprocess.run([*command, "--placement-backend=kueue"], text=True, capture_output=True, timeout=30)
    assert done.returncode == 2 and "--placement-backend" in done.stderr, done.stderr


def test_the_operator_meets_the_restricted_standard_and_outlives_a_node(documents):
    deployment = of_kind(documents, "Deployment")[0]["spec"]
    pod = deployment["template"]["spec"]
    container = pod["containers"][0]
    assert deployment["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert pod["affinity"]["podAntiAffinity"]
    assert of_kind(documents, "PodDisruptionBudget")[0]["spec"]["minAvailable"] == 1
    assert not of_kind(render("replicas=1"), "PodDisruptionBudget"), "a budget of one of one would block every drain"


def test_the_coordinator_service_has_no_selector_and_the_leaders_port_name(documents):
    service = next(s for s in of_kind(documents, "Service") if s["metadata"]["name"] == "lockstep-coordinator")
    assert "selector" not in service["spec"]
    assert service["spec"]["ports"] == [{"name": "coordinator", "port": 7077, "targetPort": 7077, "protocol": "TCP"}]


def test_the_crd_outlives_the_chart_and_can_be_omitted(documents):
    crd = of_kind(documents, "CustomResourceDefinition")[0]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert crd == yaml.safe_load((e2e.ROOT / "manifests/crd.yaml").read_text())
    assert not of_kind(render("crd.install=false"), "CustomResourceDefinition")


def test_the_agents_image_is_the_operators(documents):
    container = of_kind(render("image.tag=dev"), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "docker.io/lockstep/operator:dev"
    assert {"name": "LOCKSTEP_AGENT_IMAGE", "value": container["image"]} in container["env"]


def notes(tmp_path, **values):
    """What `helm install` prints after it has installed the chart with these values."""
    shutil.copytree(CHART, tmp_path / "chart")
    (tmp_path / "chart/templates/NOTES.txt").rename(tmp_path / "chart/files/NOTES.txt")
    (tmp_path / "chart/templates/notes.yaml").write_text('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}\n')
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    text = rendered("-f", tmp_path / "values.yaml", "-s", "templates/notes.yaml", chart=tmp_path / "chart")
    return yaml.safe_load(text)["notes"]


def job_of(text):
    """The job in the notes."""
    return yaml.safe_load(re.search(r"<<END\n(.*?)^  END$", text, re.M | re.S)[1])


def test_the_notes_name_the_trainer_and_no_namespace_by_default(tmp_path):
    text = notes(tmp_path)
    assert job_of(text)["spec"]["image"].startswith("docker.io/lockstep/trainer:")
    assert "imagePullSecrets" not in job_of(text)["spec"]
    assert " -n " not in text.replace("-n lockstep-system", "")


def test_the_notes_use_the_watched_namespace(tmp_path):
    text = notes(tmp_path, watchNamespace="team")
    commands = re.findall(r"kubectl (?:apply|get|describe) .*", text)
    assert len(commands) == 3 and [line for line in commands if " -n team" not in line] == []


def test_the_job_of_the_notes_names_the_pull_secrets(tmp_path):
    secrets = [{"name": "registry"}, {"name": "mirror"}]
    assert job_of(notes(tmp_path, imagePullSecrets=secrets))["spec"]["imagePullSecrets"] == secrets


@pytest.mark.parametrize("repository, image", [
    ("example.com/operators/operator", "example.com/operators/trainer"),
    ("example.com/team/lockstep-operator", "example.com/team/lockstep-trainer"),
])
def test_the_notes_change_only_the_end_of_the_images_name(tmp_path, repository, image):
    text = notes(tmp_path, image={"repository": repository, "tag": "1"})
    assert job_of(text)["spec"]["image"] == f"{image}:1"


# What lets a user call chroot.
AS_ROOT = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]


@pytest.mark.parametrize("image, program", [("operator", "/lockstep-operator"), ("operator", "/lockstep-agent"),
                                            ("trainer", "/usr/local/bin/lockstep-trainer")])
def test_programs_start_from_the_files_of_the_image_alone(tmp_path, image, program):
    name = pathlib.Path(program).name
    e2e.run(e2e.ROOT / "containers/collect.sh", tmp_path / image, f"{e2e.BUILD}/bin/{name}:{program}")
    done = subprocess.run(
        [*AS_ROOT, "chroot", tmp_path / image, program, "--version"],
        text=True,
        capture_output=True,
        timeout=30,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(name), done.stdout


def test_images_are_built_without_a_daemon_and_their_sizes_printed(tmp_path):
    done = e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, tmp_path, deadline=120)
    print("\n" + done.stdout)
    for image in ("operator", "trainer"):
        assert f"docker.io/lockstep/{image}:dev" in done.stdout
        assert (tmp_path / f"{image}.tar").stat().st_size < 200 << 20


def layer_of(archive, folder):
    """Unpacks the one layer of an image archive; returns its folder."""
    with tarfile.open(archive) as outer:
        (layer,) = json.load(outer.extractfile("manifest.json"))[0]["Layers"]
        with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
            inner.extractall(folder)
    return folder


def test_the_cuda_image_of_stand_ins_has_each_library_with_its_licence(tmp_path):
    """Of stand-ins for NVIDIA's libraries; `make soak` has the image with the libraries themselves."""
    done = e2e.run(e2e.ROOT / "tests/e2e/programs/cuda_image.sh", e2e.BUILD, tmp_path, deadline=120)
    print("\n" + done.stdout)
    root = layer_of(tmp_path / "trainer-cuda.tar", tmp_path / "root")
    listed = [line.split() for line in (e2e.ROOT / "containers/cuda-libraries.txt").read_text().splitlines()
              if not line.startswith("#")]
    there = {path.name for path in (root / "usr/lib/x86_64-linux-gnu").iterdir()}
    assert there == {library for library, _ in listed}
    for library, package in listed:
        assert re.search(rf"^{re.escape(library)} +\d+ MiB$", done.stdout, re.M), library
        assert (root / f"usr/share/doc/{package}/License.txt").is_file(), package
    assert re.search(r"^docker\.io/lockstep/trainer:fakes-cuda +\d+ MiB$", done.stdout, re.M)
    # No flag names a library: the dynamic linker finds all of them.
    trained = subprocess.run(
        [*AS_ROOT, "chroot", root, "lockstep-trainer", "--backend=cuda", "--model=resnet18-cifar", "--data=synthetic",
         "--steps=1", "--width=4", "--batch-size=4", "--eval-samples=2"],
        text=True, capture_output=True, timeout=60, env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert trained.returncode == 0, trained.stderr
    assert "cuda/float32/a fake of a GPU/" in trained.stdout


@pytest.mark.parametrize("gone", ["lib/libcudnn_graph.so.9", "licences/nvidia-cudnn-cu13"])
def test_a_cuda_image_without_a_listed_library_or_its_licence_is_not_made(tmp_path, gone):
    for line in (e2e.ROOT / "containers/cuda-libraries.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        library, package = line.split()
        for path in (f"lib/{library}", f"licences/{package}/License.txt"):
            if not path.startswith(gone):
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text("a stand-in")
    done = e2e.run(e2e.ROOT / "containers/add-cuda.sh", tmp_path / "root", tmp_path, check=False)
    assert done.returncode == 1 and "cuda-toolkit.sh --runtime" in done.stderr, done.stderr


def test_a_program_without_kernels_is_no_cuda_image(tmp_path):
    if "built without CUDA kernels" not in e2e.run(e2e.BUILD / "bin/lockstep-trainer", "--model=linear-regression",
                                                   "--steps=1", "--backend=auto").stdout:
        pytest.skip("this build has CUDA kernels")
    done = e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, tmp_path, "dev", "trainer-cuda", check=False)
    assert done.returncode == 1 and "has no CUDA kernels; build it with the preset cuda" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_the_strategic_merge_agrees_with_kubectl_on_500_random_patches():
    e2e.program("kubectl")
    done = subprocess.run([e2e.BUILD / "tests/bin/kubectl_patch_test"], text=True, capture_output=True, timeout=500)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "SKIPPED" not in done.stdout
