#!/bin/sh
# Resolve all dependencies into hashed lock files that name no registry. Each file is complete for its
# installation, but those of `test` and `clients`, which name what these groups add to `dev`.
set -eu
uv="$1"
compile() { "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header "$@"; }
printf 'uv\nsetuptools\n' > requirements/bootstrap.in
compile requirements/bootstrap.in -o requirements/bootstrap.lock
compile pyproject.toml -o requirements/core.lock
compile pyproject.toml --extra cluster -c requirements/core.lock -o requirements/cluster.lock
compile pyproject.toml --extra pipeline -c requirements/core.lock -o requirements/pipeline.lock
compile pyproject.toml --extra otel -c requirements/core.lock -o requirements/otel.lock
versions="-c requirements/bootstrap.lock -c requirements/cluster.lock -c requirements/pipeline.lock -c requirements/otel.lock"
mkdir -p build && all=build/all.lock
cat requirements/dev.lock requirements/test.lock requirements/clients.lock > "$all"  # versions that stay
compile pyproject.toml --all-extras --group dev --group test --group clients $versions -o "$all"
compile pyproject.toml --extra cluster --extra otel --group dev -c "$all" -o requirements/dev.lock
for group in test clients; do
  compile pyproject.toml --extra cluster --extra otel --group dev --group $group -c "$all" -o "$all.$group"
  awk '/^[^ #]/ { line = $0 } NR == FNR { known[line] = 1; next } !(line in known)' requirements/dev.lock "$all.$group" > requirements/$group.lock
done
compile --group site -o requirements/site.lock
compile --group sbom -o requirements/sbom.lock
compile --group audit -o requirements/audit.lock
