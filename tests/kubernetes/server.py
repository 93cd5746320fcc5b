"""A real API server with its etcd, for the tests: built by ``build.py``, started once for all of them."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from dashboard.launch.ports import free_port
from tests.kubernetes.build import cache_dir
from tests.kubernetes.deployment import objects

Json = dict[str, Any]
START_S = 120
#: Who may do all, as a test does, and whose rights ``deploy/kubernetes/rights.yaml`` says.
ADMIN, OURS = "token-of-an-admin", "token-of-tidegate"
OUR_NAME = "system:serviceaccount:tidegate:tidegate"
#: Where objects of the deployment live.
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


class ApiServer:
    """Two processes on free ports of the loopback, and the way to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = (free_port(host="127.0.0.1", wanted=0) for _ in range(3))
        self._etcd_port, self._peer_port, self._port = ports
        self.url = f"https://127.0.0.1:{self._port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._write_secrets()
        self._spawn("etcd", self._etcd_argv())
        self.start()
        self._apply_deployment()

    def start(self) -> None:
        """Start the API server and wait until it is ready."""
        self._spawn("kube-apiserver", self._server_argv())
        until_s = time.monotonic() + START_S
        with self.client() as http:
            while time.monotonic() < until_s:
                with suppress(httpx.HTTPError):
                    if http.get("/readyz").status_code == 200:
                        return
                assert self._processes["kube-apiserver"].poll() is None, self._last_words()
                time.sleep(0.1)
        raise AssertionError(f"the API server was never ready: {self._last_words()}")

    def stop(self) -> None:
        """End the API server as a crash does; its objects stay."""
        self._end("kube-apiserver")

    def close(self) -> None:
        """End both."""
        for name in list(self._processes):
            self._end(name)

    def client(self, token: str = ADMIN) -> httpx.Client:
        """Return a client that says who it is."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.url, headers=headers, verify=self.trust(), timeout=15, trust_env=False
        )

    def trust(self) -> ssl.SSLContext:
        """Return what knows the server by the certificate that it made."""
        made = self.folder / "certs" / "apiserver.crt"
        until_s = time.monotonic() + START_S
        while not made.exists():
            assert time.monotonic() < until_s, f"no certificate: {self._last_words()}"
            time.sleep(0.05)
        return ssl.create_default_context(cafile=str(made))

    def kubeconfig(self) -> str:
        """Return a file by which the engine finds it, as the account whose rights are the deployment's."""
        path = self.folder / "kubeconfig"
        made = str(self.folder / "certs" / "apiserver.crt")
        cluster = {"server": self.url, "certificate-authority": made}
        told = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "tidegate", "user": {"token": OURS}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "tidegate"}}],
        }
        path.write_text(json.dumps(told))
        return str(path)

    def compact(self) -> None:
        """Have every version of before be forgotten by the store."""
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv"
        seen = httpx.post(f"{url}/range", json={"key": "AA=="}, trust_env=False).json()
        revision = seen["header"]["revision"]
        asked = {"revision": revision, "physical": True}
        httpx.post(f"{url}/compaction", json=asked, trust_env=False).raise_for_status()

    # -- how it is started -------------------------------------------------------------------

    def _write_secrets(self) -> None:
        tokens = (
            f'{ADMIN},admin,1,"system:masters"\n'
            f'{OURS},{OUR_NAME},2,"system:serviceaccounts,system:serviceaccounts:tidegate"\n'
        )
        (self.folder / "tokens.csv").write_text(tokens)
        key, _ = self_signed("accounts")
        (self.folder / "accounts.key").write_bytes(key)

    def _etcd_argv(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        given = {
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        return [f"--{name}={value}" for name, value in given.items()]

    def _server_argv(self) -> list[str]:
        key = str(self.folder / "accounts.key")
        given = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "secure-port": str(self._port),
            "cert-dir": str(self.folder / "certs"),
            "authorization-mode": "RBAC",
            "token-auth-file": str(self.folder / "tokens.csv"),
            "service-account-issuer": "https://tests",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.96.0.0/24",
            "kubelet-preferred-address-types": "InternalIP",
        }
        return [f"--{name}={value}" for name, value in given.items()]

    def _spawn(self, name: str, argv: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as output:
            self._processes[name] = subprocess.Popen(
                [str(cache_dir() / name), *argv],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        file = self.folder / "kube-apiserver.log"
        return file.read_text(errors="replace")[-2000:] if file.exists() else ""

    def _apply_deployment(self) -> None:
        """Make all that ``deploy/kubernetes`` holds, and what controllers would make for it."""
        with self.client() as http:
            for one in sorted(objects(), key=lambda each: each["kind"] != "Namespace"):
                meta = one["metadata"]
                path = COLLECTIONS[one["kind"]].format(namespace=meta.get("namespace"))
                answer = http.post(path, json=one)
                assert answer.status_code == 201, f"{one['kind']} {meta['name']}: {answer.text}"
            account = {"metadata": {"name": "default"}}
            http.post("/api/v1/namespaces/tidegate-work/serviceaccounts", json=account)


def self_signed(name: str) -> tuple[bytes, bytes]:
    """Return a private key and a certificate that it signed itself, both as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return secret, made.public_bytes(serialization.Encoding.PEM)
