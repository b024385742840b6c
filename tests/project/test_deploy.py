"""What deploys a cluster: manifests against their schemas, their versions against the pins."""

import json
import re
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


@pytest.mark.parametrize("name", ["aws.yaml", "rayjob.yaml"])
def test_manifests_hold_no_secret_and_one_image_and_demand_a_token(name):
    text = (DEPLOY / name).read_text()
    assert set(re.findall(r"image: (\S+)", text)) == {IMAGE}
    assert not re.search(r"(?i)(secret|password|access_key\w*)\s*[:=]\s*[\"']?\w{8}", text)
    assert "RAY_AUTH_MODE=token" in text or "mode: token" in text
