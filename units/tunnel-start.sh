#!/bin/sh
# ExecStart of netvm-tunnel@.service.
#   NETNS=… WG=… tunnel-start NODE
# Long path: `netvm-tunnel up NODE`. While Node.js starts, this creates in parallel what does not depend on the
# configuration: the interface, in the host's namespace so that its UDP socket stays there, then moved into the node's.
# It is down and has no key, address or route: no traffic can pass.
# Short path: a watchdog that repairs the tunnel has just read, checked and resolved everything and left the result in
# /run/netvm/tunnel/NODE (lib/tunnel/handover.ts). That saves the start of Node.js, half of the repair's time. If any
# step of it fails, the long path follows, undoes it and reports the error; so nothing here prints one.
set -u
node=$1
plan=/run/netvm/tunnel/$node
# Present when the kernel reported in this boot that it has no WireGuard: asking again costs as much as any other step.
no_kernel=/run/netvm/no-kernel-wireguard

# Prints the engine when the interface is inside the namespace. Prints nothing if something is in the way or fails:
# netvm-tunnel then starts from scratch. `device FILE` also sets the keys of FILE. wg's errors are discarded, because
# they quote the offending line.
device() {
  socket=/run/wireguard/$WG.sock
  if [ -e "/sys/class/net/$WG" ] || [ -e "$socket" ]; then return; fi
  engine=wireguard-go
  if [ ! -e "$no_kernel" ] || [ -e /sys/module/wireguard ]; then
    if said=$(ip link add dev "$WG" type wireguard 2>&1); then engine=kernel; fi
    # "Unknown device type" (no module), "Operation not supported" (no module loader); anything else is a real failure.
    case $engine$said in
      kernel*) ;;
      *[Uu]nknown\ device\ type*|*not\ supported*) true > "$no_kernel" ;;
      *) return ;;
    esac
  fi
  if [ "$engine" = wireguard-go ]; then
    command -v wireguard-go >/dev/null || return
    # Not our standard output: it would keep the pipe open.
    LOG_LEVEL=error WG_PROCESS_FOREGROUND=1 wireguard-go "$WG" >&2 &
    pid=$!
    # A start takes 6 ms. After a second or two, stop waiting.
    tries=400
    until [ -S "$socket" ]; do
      tries=$((tries - 1))
      if [ "$tries" -eq 0 ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
      sleep 0.001
    done
  fi
  keys=
  if [ $# -eq 0 ]; then :
  elif [ "$engine" = kernel ]; then wg setconf "$WG" "$1" 2>/dev/null || engine=
  # wireguard-go answers on its socket while its interface is being moved, which takes 20 ms.
  else wg setconf "$WG" "$1" 2>/dev/null & keys=$!
  fi
  if ip link set dev "$WG" netns "$NETNS" 2>/dev/null && { [ -z "$keys" ] || wait "$keys"; }; then
    echo "$engine"
  elif [ "$engine" = wireguard-go ]; then
    kill "$pid" 2>/dev/null
    wait "$pid"
  else
    ip link del dev "$WG" 2>/dev/null
  fi
}

# Whether the handed-over plan is for this start: a few seconds old at most, and made from the present configuration.
handed_over() {
  [ -e "$plan/conf" ] || return 1
  read -r now _ < /proc/uptime && read -r end < "$plan/until" && [ "${now%.*}" -lt "$end" ] || return 1
  read -r version < "$plan/conf" && [ "$version" = "$(stat -c '%i %.9Y %.9Z' "/etc/netvm/wireguard/$node.conf" 2>/dev/null)" ]
}

# Runs in the node's network namespace.
if [ "${2-}" = inside ]; then
  if [ -e "$plan/v6" ]; then echo 0 > "/proc/sys/net/ipv6/conf/$WG/disable_ipv6" || exit 1; fi
  exec ip -batch "$plan/inside"
fi
if handed_over; then
  engine=$(device "$plan/setconf")
  if [ -n "$engine" ] && nsenter --net="/run/netns/$NETNS" -- "$0" "$node" inside 2>/dev/null; then
    # The watchdog that handed it over checks at once whether it carries traffic.
    # `true` and not `:`: a failed redirection ends the shell at a special builtin, and the tunnel is up already.
    true > "$plan/applied" 2>/dev/null || true
    # A kernel interface has no process, and a forking unit without a process is inactive.
    if [ "$engine" = kernel ]; then sleep infinity & fi
    exit 0
  fi
  exec "${0%/*}/netvm-tunnel" up "$node"
fi
[ ! -e "$plan" ] || rm -rf "$plan"
device | "${0%/*}/netvm-tunnel" up "$node" --device-from-stdin
