# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, never run.

# shellcheck disable=SC2034
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() { printf '%s: %s\n' "${0##*/}" "$1" >&2; exit "${2:-1}"; }

# Runs the script again through sudo when it is not root; there may be no sudo.
as_root() {
  [ "$(id -u)" -eq 0 ] && return
  command -v sudo >/dev/null || die "needs root, and there is no sudo here; run it as root" 77
  exec sudo --preserve-env=CI,NO_COLOR -- "$0" "$@"
}

# Prints the usage comment at the head of the script: the block that starts at line 2.
usage_if_asked() {
  case "${1-}" in
    -h | --help) awk 'NR==1{next} /^#/{sub(/^# ?/,""); print; next} {exit}' "$0"; exit 0 ;;
  esac
}
