#!/bin/sh
# A virtual environment for the Python package and its tests, in build/venv. Prints the options that CMake takes for it:
# -DSTICKYBIT_PYTHON=ON -DPython_EXECUTABLE=..., or OFF where there can be none (said on standard error; the tests then skip).
# usage: sh cmake/python_venv.sh   from the project's folder
#   PYTHON   the interpreter (default: python3)
set -eu

say() { printf 'stickybit: %s\n' "$*" >&2; }
without() {
  say "$*; the Python package is not built, and its tests are skipped"
  echo -DSTICKYBIT_PYTHON=OFF
  exit 0
}

python=${PYTHON:-python3}
requirements=src/python/requirements.txt
notebooks=notebooks/requirements.txt
command -v "$python" >/dev/null || without "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || without "$python is older than 3.10"

# Made again when what it holds, or the interpreter, changes.
wanted=$("$python" -c 'import sys; print(sys.version)'; cat "$requirements" "$notebooks")
if [ ! -f build/venv/made_for ] || [ "$(cat build/venv/made_for)" != "$wanted" ]; then
  say 'making build/venv for the Python package ...'
  rm -rf build/venv
  mkdir -p build
  "$python" -m venv build/venv >build/venv.log 2>&1 || without "no virtual environment can be made (build/venv.log)"
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary numpy,ml_dtypes -r "$requirements" >>build/venv.log 2>&1 </dev/null ||
    without "pip could not install $(grep -v '^#' "$requirements" | tr '\n' ' ')(build/venv.log)"
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$notebooks" >>build/venv.log 2>&1 </dev/null ||
    say "pip could not install $(grep -v '^#' "$notebooks" | tr '\n' ' ')(build/venv.log); the notebooks are not run"
  printf '%s\n' "$wanted" >build/venv/made_for
fi
echo "-DSTICKYBIT_PYTHON=ON -DPython_EXECUTABLE=$(pwd)/build/venv/bin/python"
