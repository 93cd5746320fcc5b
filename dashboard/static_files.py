"""How the pages' files are served: under hashed names, compressed where pages use them often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.staticfiles.storage import HashedFilesMixin
from whitenoise.storage import CompressedManifestStaticFilesStorage

# Our own modules import one another by relative path; other people's files need no rewriting.
OWN_MODULES = "js/*"
COMPRESSED = ("css/", "js/", "vendor/", "django_htmx/htmx")


class PagesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Hashes all files, and compresses those of the pages: the admin's are read too seldom."""

    patterns = (
        *HashedFilesMixin.patterns,
        (OWN_MODULES, HashedFilesMixin._js_module_import_aggregation_patterns[1]),  # type: ignore[attr-defined]
    )

    def compress_files(self, paths: Iterable[str]) -> Iterator[Any]:
        hashed = set(self.hashed_files.values())
        used = [path for path in paths if path in hashed and path.startswith(COMPRESSED)]
        yield from super().compress_files(used)
