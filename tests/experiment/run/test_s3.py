"""HOSM_STORAGE and a DVC remote on S3, at moto's server on loopback (extra `s3`)."""

import subprocess
import sys

import pytest

from hosm.experiment.run.exchange import Store
from tests.experiment.run.services import KEYS, need, s3

pytestmark = pytest.mark.cluster
need("moto", "boto3", "s3fs", "dvc_s3", "flask_cors")


@pytest.fixture(scope="module")
def endpoint():
    with s3() as address:
        yield address


@pytest.fixture
def bucket(endpoint, monkeypatch):
    import boto3

    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="hosm")
    return "s3://hosm"


def test_files_of_a_stage_travel_by_a_bucket_and_are_verified(bucket, endpoint, tmp_path):
    import boto3

    one, other = tmp_path / "one", tmp_path / "other"
    (one / "data" / "set").mkdir(parents=True)
    (one / "data" / "set" / "a.npy").write_bytes(b"1" * 10**6)
    (one / "data" / "single.csv").write_text("x\n1\n")
    other.mkdir()
    Store(f"{bucket}/team").push(one, ["data/set", "data/single.csv"])
    Store(f"{bucket}/team").pull(other, ["data/set", "data/single.csv"])
    assert (other / "data/set/a.npy").read_bytes() == b"1" * 10**6
    assert (other / "data/single.csv").read_text() == "x\n1\n"
    client = boto3.client("s3", endpoint_url=endpoint)
    client.put_object(Bucket="hosm", Key="team/files/data/single.csv", Body=b"x\n2\n")
    third = tmp_path / "third"
    third.mkdir()
    with pytest.raises(ValueError, match=r"single\.csv"):
        Store(f"{bucket}/team").pull(third, ["data/single.csv"])
    assert not (third / "data/single.csv").exists()


def test_a_dvc_remote_on_s3_gives_a_clone_its_data(bucket, endpoint, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()

    def call(*command, at=one):
        done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    def dvc(*arguments, at=one):
        call(sys.executable, "-m", "dvc", *arguments, at=at)

    call("git", "init", "-q")
    dvc("init", "-q")
    (one / "data.bin").write_bytes(bytes(range(256)) * 100)
    dvc("add", "-q", "data.bin")
    dvc("remote", "add", "-d", "team", f"{bucket}/dvc")
    dvc("remote", "modify", "team", "endpointurl", endpoint)
    dvc("push", "-q")
    call("git", "add", ".")
    call("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    call("git", "clone", "-q", str(one), str(other))
    dvc("pull", "-q", at=other)
    assert (other / "data.bin").read_bytes() == (one / "data.bin").read_bytes()
