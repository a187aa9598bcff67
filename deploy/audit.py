"""`make audit`: known vulnerabilities of what the lock files install, by pip-audit: `python -m deploy.audit PIP_AUDIT`.

Ends with 0 only if the service answered and knows of none. It is asked about a release with a published vulnerability
first: one that does not know that cannot say anything about ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCKS = Path(__file__).resolve().parents[1] / "requirements"
KNOWN = "jinja2==2.10"
"""CVE-2019-10906 and others."""
SERVICES = ("pypi", "osv")
EXIT_FOUND = 1
EXIT_NOT_AUDITED = 3


def vulnerabilities(program: str, file: Path, service: str) -> list[str] | str:
    """A line for each vulnerability of what the file pins, or why the service gave no answer."""
    words = [
        program,
        "--requirement",
        str(file),
        "--no-deps",
        "--disable-pip",
        "--format=json",
        "--progress-spinner=off",
    ]
    done = subprocess.run([*words, f"--vulnerability-service={service}"], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
        if skipped := [f"{each['name']}: {each['skip_reason']}" for each in packages if "skip_reason" in each]:
            return "; ".join(skipped)
        return [f"{one['name']} {one['version']}: {vuln['id']}" for one in packages for vuln in one["vulns"]]
    except (ValueError, KeyError):
        return (done.stderr.strip().splitlines() or [f"{program} ended with {done.returncode}"])[-1]


def usable_service(program: str) -> str | None:
    """The first service that knows the vulnerability of `KNOWN`; says of the others why not."""
    with tempfile.TemporaryDirectory() as directory:
        control = Path(directory, "control.txt")
        control.write_text(f"{KNOWN}\n")
        for service in SERVICES:
            found = vulnerabilities(program, control, service)
            if found and not isinstance(found, str):
                return service
            print(f"audit: {service}: {found or f'it knows no vulnerability of {KNOWN}'}", file=sys.stderr)
    return None


def main(program: str) -> int:
    service = usable_service(program)
    if service is None:
        print("audit: NOT AUDITED: no service of vulnerabilities can be used from here", file=sys.stderr)
        return EXIT_NOT_AUDITED
    code = 0
    for file in sorted(LOCKS.glob("*.lock")):
        found = vulnerabilities(program, file, service)
        if isinstance(found, str):
            print(f"audit: {file.name}: NOT AUDITED: {found}", file=sys.stderr)
            code = EXIT_NOT_AUDITED
        else:
            print("\n".join([f"{file.name}: {len(found)} known vulnerabilities", *found]))
            code = code or (EXIT_FOUND if found else 0)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
