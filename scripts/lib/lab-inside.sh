#!/usr/bin/env bash
# The inner half of scripts/lab: runs in private mount and PID namespaces; never run by hand.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/common.sh"
base=/run/lab
root=$base/root

# Enters the guest. A clock set inside would be the clock of the machine, so the means to set one are dropped.
enter() {
  local leader
  leader=$(cat "$base/leader")
  nsenter -t "$leader" -a -- setpriv --bounding-set=-sys_time,-sys_module,-sys_rawio \
    --inh-caps=-sys_time,-sys_module,-sys_rawio -- env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${CI:+CI="$CI"} \
    LAB=1 LAB_BOOT="$(cat "$base/boot")" NETVM_LAB_UNIT="$(cat "$base/unit" 2>/dev/null || echo 1)" "$@"
}

if [ "$1" = enter ]; then shift; enter "$@"; exit; fi
[ "$1" = boot ] || die "not meant to be run by hand; use scripts/lab"
verb=$2; shift 2

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p "$base"
mount -t tmpfs -o mode=755 tmpfs "$base"
mkdir "$base/upper" "$base/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$root"
: > "$root/etc/machine-id"
# Nothing of the outer machine's own services may start, and its journal is not the lab's.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/var/log/journal "$root"/etc/netvm "$root"/var/lib/netvm "$root"/var/log/netvm
mkdir -p "$root/var/log/journal" "$root/etc/systemd/system"
for unit in tmp.mount systemd-networkd.service systemd-resolved.service systemd-timesyncd.service apt-daily.timer \
  apt-daily-upgrade.timer getty.target console-getty.service systemd-logind.service; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# Debian's own line for /tmp empties it at boot, and the checkout may be there.
mkdir -p "$root/etc/tmpfiles.d"
printf 'q /tmp 1777 root root -\n' > "$root/etc/tmpfiles.d/tmp.conf"
# The overlay holds the root file system only: a checkout that lives on another one is bound in.
binds=()
[ -e "$root$repo/package.json" ] || binds+=("--bind=$repo")

boot=0
while :; do
  boot=$((boot + 1))
  echo "$boot" > "$base/boot"
  rm -f "$base/leader"
  SYSTEMD_NSPAWN_TMPFS_TMP=0 systemd-nspawn --quiet --register=no --keep-unit --private-network --machine=netvm-lab \
    --link-journal=no --console=pipe --resolv-conf=off --timezone=off "${binds[@]}" -D "$root" \
    --boot systemd.unit=multi-user.target systemd.log_level=warning < /dev/null > "$base/console.log" 2>&1 &
  nspawn=$!
  leader=
  for _ in $(seq 3000); do
    leader=$(pgrep -P "$nspawn" -x systemd || true)
    [ -n "$leader" ] && [ -S "/proc/$leader/root/run/systemd/private" ] && break
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 0.02
  done
  if [ -z "$leader" ]; then tail -30 "$base/console.log" >&2; die "the lab did not boot; its console is above"; fi
  echo "$leader" > "$base/leader"
  enter timeout 300 systemctl is-system-running --wait > "$base/running" 2>&1 || true
  case "$(cat "$base/running")" in
    running) ;;
    *) [ "$boot" -gt 1 ] || { enter systemctl --failed --no-legend >&2 || true; printf 'lab: booted as "%s"\n' "$(cat "$base/running")" >&2; } ;;
  esac
  if [ "$boot" -eq 1 ]; then
    # What the tests wait for and what they set is a multiple of this; the line tells a reader of the log on what.
    measured=$(enter "$repo/scripts/lib/lab-unit") || die "scripts/lib/lab-unit failed inside the lab"
    printf '%s\n' "${NETVM_LAB_UNIT:-${measured%% *}}" > "$base/unit"
    printf 'lab: time unit %s: %s\n' "$(cat "$base/unit")" "${measured#* }" >&2
    enter "$repo/scripts/install" --quiet || die "scripts/install failed inside the lab"
  fi

  # A shutdown inside stops every process with SIGSTOP before it kills them. nsenter, which sees its child stop,
  # stops itself, never reaps it, and the guest's PID namespace waits for that for ever.
  (while sleep 0.5; do
    for entered in $(pgrep -P "$$" -x nsenter); do kill -CONT "$entered" 2>/dev/null || true; done
  done) < /dev/null > /dev/null 2>&1 &
  waker=$!
  status=0
  # shellcheck disable=SC2016
  case "$verb" in
    shell) enter bash -c "cd '$repo' && exec bash -i" || status=$? ;;
    run)
      file=$(realpath "$1")
      case "$file" in
        # spec whatever stdout is: it ends with the reasons of what failed, all together.
        *.test.ts) enter bash -c 'cd "$1" && shift && exec node --import tsx --test --test-reporter=spec "$@"' lab "$repo" "$file" "${@:2}" || status=$? ;;
        *.ts | *.mts) enter bash -c 'cd "$1" && shift && exec node --import tsx "$@"' lab "$repo" "$file" "${@:2}" || status=$? ;;
        *) enter "$file" "${@:2}" || status=$? ;;
      esac ;;
  esac
  kill "$waker" 2>/dev/null || true
  # A reboot ends the run with a signal a moment before nspawn itself is gone.
  if [ -e "$root/var/tmp/lab-reboot" ]; then
    for _ in $(seq 9000); do kill -0 "$nspawn" 2>/dev/null || break; sleep 0.02; done
    ended=0; wait "$nspawn" || ended=$?
    rm -f "$root/var/tmp/lab-reboot"
    # The runner that the reboot ended has called its file failed; scripts/test judges by what comes after this line.
    if [ "$ended" -eq 133 ]; then printf 'lab: rebooted\n' >&2; continue; fi
    tail -30 "$base/console.log" >&2; die "the lab was to reboot and ended with $ended instead"
  fi
  kill -KILL "$nspawn" 2>/dev/null || true
  exit "$status"
done
