"""The commands of the pages that `make test` does not type as printed: what it types instead, or why nothing. And the
programs that a stand-in replaces.

`make soak` types those of LONG as printed. tests/structure/test_command_blocks.py holds that each entry is on a page.
"""

# page -> command -> why no test types it
LEFT_OUT = {
    "README.md": {"make cluster": "the block `On a cluster` begins with it"},
    "RELEASE.md": {
        "tests/clean_root/clean_root.sh <out/release/lockstep_0.1.0_amd64.deb sh -c "
        "'cat >/tmp/lockstep.deb && apt-get update && apt-get install -y /tmp/lockstep.deb && lockstep --version'":
            "it installs packages of Debian, as root; tests/release/test_release_files.py starts the programs of the "
            "package, and compares what they load with what it depends on",
    },
    "CONTRIBUTING.md": {
        "make test": "this test is a part of it",
        "make soak": "its last form types the long commands of the pages, and so this one",
        "make test-unit": "the suite `unit` of `make test`",
        "make test-kind": "the suite `kind` of `make test`",
    },
    "docs/elastic.md": {
        "lockstep run job.yaml --deterministic --chaos 7:60": "test_readme.py types it, as a block of docs/laptop.md",
    },
    "docs/gpu.md": {
        "docker build -f containers/trainer.Dockerfile --target cuda -t $REGISTRY/trainer:$TAG-cuda .":
            "it downloads 1.2 GB; `tests/kind/run.sh cuda`, a form of `make soak`, builds this target by podman",
    },
    "docs/migration.md": {
        "torchrun --nnodes=2 --nproc-per-node=8 --max-restarts=3 train.py --epochs=3":
            "PyTorch's launcher, which the page translates; it needs two nodes with 8 GPUs",
    },
    "tests/gpu/README.md": {
        "tests/gpu/run.sh": "it needs a GPU; the suite `gpu` of `make test` runs these tests on the fakes",
    },
    "tests/kind/README.md": {
        "make test-kind": "the suite `kind` of `make test`",
        "tests/kind/run.sh cuda": "a form of `make soak`",
        "tests/kind/run.sh -k xid": "the suite `kind` of `make test` runs these tests with the others",
        "LOCKSTEP_KIND_ENGINE=docker LOCKSTEP_KIND_NODE_IMAGE=kindest/node:v1.37.0@sha256:"
        "a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5 sudo -E tests/kind/run.sh":
            "Docker and an image of a public registry are needed",
    },
}

# program -> why a file of its name beside this one takes its place where a test types it, and what tests the program
STAND_INS = {
    "docker": "neither Docker nor a registry is there; tests/kind/prepare.sh builds the Dockerfiles by podman, and "
              "tests/kind/test_images.py compares their images",
}

RECIPE = object()  # `make -n`, and the programs of the recipe with --help behind their words

ONE_STEP = " --steps=1 --batch-size=2 --micro-batch-size=2"
THREE_STEPS = " --steps=3 --eval-every=3 --eval-samples=20"
ONE_RUN = " --batch-size 2 --steps 2 --warmup-steps 1 --runs 1"
FEW_IMAGES = " --images 20 --size 32 --seconds 0.1 --runs 1"

# command -> what makes it short: words for its end, words for other words, or RECIPE
LONG = {
    "make lint": RECIPE,
    "make site": RECIPE,
    "make doxygen": RECIPE,
    "make capture": RECIPE,
    "make dashboard": RECIPE,
    "make bench": RECIPE,
    "make bench-recovery": RECIPE,
    "make bench-recovery KILLS=20": RECIPE,
    "make bench-coordinator": RECIPE,
    "make bench-placement": RECIPE,
    "make bench-control-plane": RECIPE,
    "make bench-peers": RECIPE,
    "make bench-peers FAULTS=4": RECIPE,
    "make bench-trainer": RECIPE,
    "make cuda-kernels": RECIPE,
    "make cuda-plans": RECIPE,
    "make cuda-roofline": RECIPE,
    # Minutes, the second after a download.
    "CCACHE_DISABLE=1 bash -c 'time scripts/build.sh release build/cold 2 programs'":
        {"time scripts": "time bash -n scripts"},
    "CCACHE_DISABLE=1 bash -c 'time scripts/build.sh cuda build/cold-cuda 2 programs'":
        {"time scripts": "time bash -n scripts"},
    # One kill is a minute of undisturbed jobs and all-reduces, and torchft is a download of PyTorch.
    'tests/bench/recovery/bench_recovery.py --kills 20 --only "4 ranks, 16 MiB" --seed 7': " --help",
    "tests/bench/recovery/bench_peers.py --faults 4 --every 30 --only torchft": " --help",
    "build/release/tests/bin/packing_bench --policies lockstep kueue --seeds 1 2 --gangs 4000": {"4000": "200"},
    "build/release/tests/bin/packing_bench --tail 0.6": " --quick",
    "build/release/tests/bin/packing_bench --tune": " --quick",
    "build/release/tests/bin/packing_bench --bound": " --quick",
    "build/release/tests/bin/packing_bench --json out/bench/packing.json": " --quick",
    "lockstep run job.yaml --deterministic --chaos 7:60": {"7:60": "7:2 -- --steps=60"},
    "lockstep-trainer --model=char-transformer --data=/usr/share/common-licenses --generate=400":
        {"--generate=400": "--generate=20 --steps=3"},
    "lockstep-trainer --model=mlp --min-step-seconds=0.2": " --steps=3",
    "lockstep-trainer --model=resnet50 --data=photos-records --classes=2 --first-label=0": ONE_STEP,
    "lockstep-trainer --model=resnet50 --data=photos --classes=2": ONE_STEP,
    "lockstep-trainer --model=resnet50 --data=photos-records --classes=2 --first-label=0 --cache-memory-mib=2000 "
    "--cache-folder=kept --cache-folder-mib=20000": ONE_STEP,
    "lockstep data synth images-224 --images 5000 --size 224 --classes 1000": {"5000": "20"},
    "lockstep data read photos-records --threads 4": " --seconds 0.2",
    "lockstep data read photos --threads 8 --latency-ms 20 --bandwidth-mib 500": " --seconds 0.2",
    "lockstep bench train --model mlp,resnet18-cifar --workers 1,2,4 --output scaling":
        {"1,2,4": "1,2" + ONE_RUN},
    "lockstep bench train --model resnet18-cifar --data synthetic,cifar10 --batch-size 64":
        {" --batch-size 64": ONE_RUN},
    "lockstep bench train --model resnet50 --workers 2 --batch-size 8 --steps 10 --warmup-steps 3 --runs 1 "
    "--output two-workers":
        {" --batch-size 8 --steps 10 --warmup-steps 3": " --batch-size 2 --steps 1 --warmup-steps 1"},
    "lockstep bench train --model resnet18-cifar --batch-size 64 --steps 10 --warmup-steps 3 --runs 1 "
    "--output two-workers":
        {" --batch-size 64 --steps 10 --warmup-steps 3": " --batch-size 2 --steps 1 --warmup-steps 1"},
    "lockstep bench train --model resnet50,mobilenet-v2,vgg-a --data synthetic,images-224 --workers 2 --batch-size 8 "
    "--steps 12 --warmup-steps 4 --runs 1 --output records -- --first-label=0":
        {"resnet50,mobilenet-v2,vgg-a": "mobilenet-v2",
         " --batch-size 8 --steps 12 --warmup-steps 4": " --batch-size 2 --steps 1 --warmup-steps 1"},
    "lockstep bench train --model resnet18-cifar --data synthetic,DATA --workers 2 --batch-size 32 --steps 8 "
    "--warmup-steps 2 --runs 1 --output records-cifar":
        {" --batch-size 32 --steps 8 --warmup-steps 2": " --batch-size 2 --steps 1 --warmup-steps 1"},
    "lockstep bench train --model resnet50 --data photos -- --classes=10 --first-label=0":
        {" -- ": " --batch-size 2 --dry-run -- "},
    "lockstep bench storage": FEW_IMAGES,
    "lockstep bench storage --store nfs,object --loaders 1,8": FEW_IMAGES,
    "lockstep bench storage --store nfs --nfs-latency-ms 3 --nfs-bandwidth-mib 200 --output slow-nfs":
        FEW_IMAGES + " --loaders 1",
    "lockstep-trainer --model=resnet18-cifar --data=DATA --width=16 --threads=2 --nesterov --batch-size=64 "
    "--micro-batch-size=64 --steps=4700 --eval-every=470 --eval-samples=2000":
        {" --steps=4700 --eval-every=470 --eval-samples=2000": THREE_STEPS},
    "lockstep run examples/cifar10.yaml --data DATA --chaos 7:6": {" --chaos 7:6": " --" + THREE_STEPS},
    "lockstep run examples/cifar10.yaml --data DATA --workers 4 -- --micro-batch-size=16": THREE_STEPS,
    "lockstep run examples/language-model.yaml --data TEXT --workers 2 -- --layers=4 --width=128 --heads=4 "
    "--context=128 --micro-batch-size=16 --steps=2600 --eval-every=400 --eval-samples=512 --generate=0":
        {" --steps=2600 --eval-every=400 --eval-samples=512": THREE_STEPS},
}

# Pages whose command blocks test_pages.py types from the first to the last.
WHOLE_PAGES = (
    "CONTRIBUTING.md", "docs/bench-storage.md", "docs/bench-train.md", "docs/data.md", "docs/elastic.md",
    "docs/placement-benchmarks.md", "docs/results.md", "docs/sizing.md", "tests/bench/README.md",
    "tests/kind/README.md", "trainer/README.md",
)
