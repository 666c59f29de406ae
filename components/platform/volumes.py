"""The storage class of the platform's volumes: gp3, encrypted with the environment's key, made where its pod lands.
Pure.
"""

import pulumi

from components.addons.prometheus import STORAGE_CLASS
from components.labels import labels
from components.manifests import Manifest, object_


def manifests(key_arn: pulumi.Input[str]) -> tuple[Manifest, ...]:
    """The default class; volumes go with their claims."""
    body = object_(
        "storage.k8s.io/v1",
        "StorageClass",
        STORAGE_CLASS,
        labels=labels("storage"),
        annotations={"storageclass.kubernetes.io/is-default-class": "true"},
    )
    return (
        Manifest(
            role="encrypted",
            body={
                **body,
                "provisioner": "ebs.csi.aws.com",
                "parameters": {"type": "gp3", "encrypted": "true", "kmsKeyId": key_arn},
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": True,
            },
        ),
    )
