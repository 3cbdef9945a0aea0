#!/bin/sh
# What netvm-tunnel@.service starts.
#   NETNS=… WG=… tunnel-start NODE
# Long way: `netvm-tunnel up NODE`, and beside it, while Node starts and reads, the part that depends on nothing in the
# configuration: the interface, made in the host's namespace, so that its UDP socket stays there, and moved into the
# node's. It is down, without a key, an address or a route: nothing can pass.
# Short way: a watchdog that repairs the tunnel has read, checked and resolved everything a moment before and left it in
# /run/netvm/tunnel/NODE (lib/tunnel/handover.ts). Node's start is half of a repair then, and is spared. Whatever goes
# wrong in it, the long way follows, undoes it and says what is wrong: so nothing here speaks.
set -u
node=$1
plan=/run/netvm/tunnel/$node
# In this boot the kernel has said that it has no WireGuard: asking again takes as long as any other step.
no_kernel=/run/netvm/no-kernel-wireguard

# Prints the engine once the interface is inside. Prints nothing where something is in the way or fails: netvm-tunnel
# then makes it from nothing. `device FILE` gives it the keys of FILE as well, of which wg never speaks: it quotes the
# line it does not like.
device() {
  socket=/run/wireguard/$WG.sock
  if [ -e "/sys/class/net/$WG" ] || [ -e "$socket" ]; then return; fi
  engine=wireguard-go
  if [ ! -e "$no_kernel" ] || [ -e /sys/module/wireguard ]; then
    if said=$(ip link add dev "$WG" type wireguard 2>&1); then engine=kernel; fi
    # "Unknown device type" (no module), "Operation not supported" (no module loader): anything else is a real failure.
    case $engine$said in
      kernel*) ;;
      *[Uu]nknown\ device\ type*|*not\ supported*) true > "$no_kernel" ;;
      *) return ;;
    esac
  fi
  if [ "$engine" = wireguard-go ]; then
    command -v wireguard-go >/dev/null || return
    # Not our standard output: it would hold the pipe open for ever.
    LOG_LEVEL=error WG_PROCESS_FOREGROUND=1 wireguard-go "$WG" >&2 &
    pid=$!
    # A start takes 6 ms; one that takes longer than a second or two is not waited for.
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
  # A wireguard-go answers on its socket, while its interface is on its way too: a move takes 20 ms.
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

# Whether what was handed over is meant for this very start: for a few seconds, and made of this very configuration.
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
    # Whoever handed it over looks at once whether it carries traffic.
    # true and not `:`: a redirection that fails ends the shell at a special builtin, and the tunnel stands.
    true > "$plan/applied" 2>/dev/null || true
    # A kernel interface has no process, and systemd calls a forking unit without one inactive.
    if [ "$engine" = kernel ]; then sleep infinity & fi
    exit 0
  fi
  exec "${0%/*}/netvm-tunnel" up "$node"
fi
[ ! -e "$plan" ] || rm -rf "$plan"
device | "${0%/*}/netvm-tunnel" up "$node" --device-from-stdin
