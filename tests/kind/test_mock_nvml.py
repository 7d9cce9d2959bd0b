"""The mock of NVML by itself: a program sees the GPUs of its control file. It needs no cluster."""

import ctypes
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent / "mock_nvml"
SUCCESS, TIMEOUT, GPU_IS_LOST = 0, 10, 15
XID, DOUBLE_BIT_ECC = 8, 2


class Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


@pytest.fixture
def mock(tmp_path, monkeypatch):
    """A folder with the library and the lister, whose control file is `control`."""
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [
            "gcc",
            *flags,
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-o",
            tmp_path / "libnvidia-ml.so.1",
            HERE / "mock_nvml.c",
        ],
        check=True,
    )
    subprocess.run(["gcc", *flags, "-o", tmp_path / "list_gpus", HERE / "list_gpus.c"], check=True)
    monkeypatch.setenv("MOCK_NVML_CONTROL", str(tmp_path / "control"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return tmp_path


def listed(mock, node="a"):
    done = subprocess.run(
        [mock / "list_gpus"],
        text=True,
        capture_output=True,
        timeout=10,
        env={"MOCK_NVML_CONTROL": str(mock / "control"), "LD_LIBRARY_PATH": str(mock), "MOCK_NVML_NODE": node},
    )
    return (
        [line.split("UUID: ")[1].rstrip(")") for line in done.stdout.splitlines()]
        if done.returncode == 0
        else done.stderr.strip()
    )


def test_a_node_has_eight_gpus_with_uuids_of_its_own(mock):
    assert len(listed(mock, "a") + listed(mock, "b")) == 16
    assert len(set(listed(mock, "a") + listed(mock, "b"))) == 16
    assert listed(mock, "a") == listed(mock, "a")


def test_seven_gpus_are_seven(mock):
    (mock / "control").write_text("gpus 7\n")
    assert len(set(listed(mock))) == 7


def test_a_uuid_can_appear_twice(mock):
    (mock / "control").write_text("uuid 3 GPU-twice\nuuid 5 GPU-twice\n")
    assert listed(mock).count("GPU-twice") == 2
    assert len(listed(mock)) == 8


def test_nvml_that_does_not_start_says_why(mock):
    (mock / "control").write_text("init 9\n")
    assert listed(mock) == "list_gpus: NVML: Driver Not Loaded"


def test_a_statement_that_is_unknown_fails_every_call(mock):
    (mock / "control").write_text("gpus seven\n")
    assert listed(mock) == "list_gpus: NVML: Unknown Error"


def test_an_event_reaches_a_waiter_once(mock):
    (mock / "control").write_text("xid 0 13\n")  # before any program waits
    library = ctypes.CDLL(str(mock / "libnvidia-ml.so.1"))
    assert library.nvmlInit_v2() == SUCCESS
    events, device, event = ctypes.c_void_p(), ctypes.c_void_p(), Event()
    assert library.nvmlEventSetCreate(ctypes.byref(events)) == SUCCESS
    for gpu in (2, 4):
        assert library.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == SUCCESS
        assert library.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID | DOUBLE_BIT_ECC), events) == SUCCESS

    def next_event(milliseconds):
        status = library.nvmlEventSetWait_v2(events, ctypes.byref(event), milliseconds)
        return (event.device, event.type, event.data) if status == SUCCESS else status

    assert next_event(0) == TIMEOUT
    with (mock / "control").open("a") as control:
        control.write("xid 1 79\necc 2 5\nlost 4\n")  # no program has registered for GPU 1
    got = [next_event(1000), next_event(1000)]
    assert [(kind, data) for _, kind, data in got] == [(DOUBLE_BIT_ECC, 5), (XID, 79)]
    assert got[1][0] == device.value
    assert next_event(0) == TIMEOUT
    memory = (ctypes.c_ulonglong * 3)()
    assert library.nvmlDeviceGetMemoryInfo(device, memory) == GPU_IS_LOST
    assert library.nvmlEventSetFree(events) == SUCCESS
    assert library.nvmlShutdown() == SUCCESS
