"""Objects below a prefix of a bucket, fetched once into the store. Used by the program that fetches."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Any

from scheduler.engines.store import Store


class S3Failed(Exception):
    """It could not be fetched; the message is for the workload's owner and holds no secret."""


def fetch(*, about: dict[str, str], secrets: dict[str, str], store: Store) -> str:
    """Fetch all objects below the prefix, unless the store has just these; return the tree's name.

    Raises:
        S3Failed: the service does not answer, refuses, or has nothing there.
    """
    # Loaded only where something is fetched from S3: it takes a tenth of a second.
    from obstore import exceptions

    where = f"{about['endpoint']} {about['bucket']}/{about.get('folder', '')}"
    try:
        return _fetch(about, secrets, store, where)
    except FileNotFoundError as error:
        raise S3Failed(f"{where}: there is no such bucket or object") from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise S3Failed(f"{where}: the service refuses this credential") from error
    except (exceptions.BaseError, OSError) as error:
        raise S3Failed(f"{where}: {type(error).__name__}") from error  # its text may hold a key


def _fetch(about: dict[str, str], secrets: dict[str, str], store: Store, where: str) -> str:
    from obstore.store import S3Store

    key, secret = secrets.get("AWS_ACCESS_KEY_ID"), secrets.get("AWS_SECRET_ACCESS_KEY")
    signed: dict[str, Any] = {}
    if key and secret:
        signed = {"access_key_id": key, "secret_access_key": secret}
    bucket = S3Store(
        about["bucket"],
        endpoint=about["endpoint"],
        region=secrets.get("AWS_REGION") or "us-east-1",
        virtual_hosted_style_request=False,
        skip_signature=not signed,
        **signed,
        client_options={"allow_http": about["endpoint"].startswith("http:")},
        retry_config={"max_retries": 4},
    )
    prefix = about.get("folder", "").strip("/")
    objects = sorted(
        (str(each["path"]), int(each["size"]), str(each["e_tag"]))
        for page in bucket.list(prefix or None)
        for each in page
    )
    if not objects:
        raise S3Failed(f"{where}: there are no objects")
    listing = "".join(f"{etag} {size} {path}\n" for path, size, etag in objects)
    name = "s3-" + hashlib.sha256(f"{where}\n{listing}".encode()).hexdigest()
    with store.locked(name):
        if store.find(name) is None:
            with store.draft() as draft:
                for path, size, _etag in objects:
                    _fetch_one(bucket, path, size, draft / _below(path, prefix))
                store.publish(draft, name=name)
    return name


def _below(path: str, prefix: str) -> str:
    """Return an object's path below the prefix; a prefix that names one object gives its name."""
    relative = path.removeprefix(prefix).strip("/") or os.path.basename(path)
    if ".." in PurePosixPath(relative).parts:
        raise S3Failed(f"{path!r} leads out of the prefix")
    return relative


def _fetch_one(bucket: object, path: str, size: int, target: Path) -> None:
    import obstore

    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "wb") as file:
        for chunk in obstore.get(bucket, path).stream():  # type: ignore[arg-type]
            file.write(chunk)
    if target.stat().st_size != size:
        raise S3Failed(f"{path} changed while it was fetched")
