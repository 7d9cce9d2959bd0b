"""A folder of images under `lockstep run`, read as it is: the bits of its packed form, with a kill on the way."""

import struct

import e2e
import jobs

STEPS = 12


def jpegs(path):
    """The JPEG in each record of a file of TFRecords."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        length, = struct.unpack_from("<Q", content, at)
        payload = content[at + 12:at + 12 + length]
        yield payload[payload.index(b"\xff\xd8\xff"):payload.rindex(b"\xff\xd9") + 2]
        at += 12 + length + 4


def test_a_folder_of_images_trains_to_the_bits_of_its_packed_form(lockstep, run, tmp_path):
    made = lockstep("data", "synth", tmp_path / "made", "--images", "44", "--size", "32", "--test-percent", "0")
    assert made.wait() == 0, made
    photos = tmp_path / "photos"
    for number, image in enumerate(jpegs(next((tmp_path / "made").glob("train-*")))):
        path = photos / f"class-{number % 10}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    packed = lockstep("data", "pack", photos, tmp_path / "packed")
    assert packed.wait() == 0, packed

    def digest(data, workers, *flags):
        job = jobs.trainer("images", "--model=resnet18-cifar", "--width=4", f"--steps={STEPS}", "--batch-size=8",
                           "--micro-batch-size=4", jobs.pace(0.3))
        command = run(job, "--data", data, "--workers", workers, "--deterministic", *flags)
        assert command.wait(120) == 0, command
        command.nothing_is_left()
        log = (command.folder / "run/logs/rank-0.log").read_text()
        return e2e.trainer_result(log)["digest"], log, command.out

    expected, log, _ = digest(tmp_path / "packed", 1)
    assert "40 images to train on, 4 held out" in log
    actual, log, out = digest(photos, 2, "--kill-worker", "1@4")
    assert "images of 10 sub-folders, 40 images to train on, 4 held out" in log
    assert "killed rank 1" in out, out
    assert actual == expected
