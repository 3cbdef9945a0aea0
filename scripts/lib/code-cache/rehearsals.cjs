// What each executable does while its code cache is made: on stand-ins in a temporary folder, with no effect on this
// machine. Only the code that runs here is in the cache; the rest is compiled when it is needed.
'use strict'
const { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { dirname, join } = require('node:path')

const HELP = { argv: ['--help'], env: {}, exit: 0, check: () => undefined }
const PORT = 9410
const PID = 4242

/** @returns runs in turn: arguments, environment, the expected exit code, and a check that returns what is wrong afterwards */
exports.rehearsals = (name) => {
  // The one that runs every two minutes for every node; the others run once for the whole fleet, or by hand.
  return name === 'chromebox-watchdog' ? ticks() : [HELP]
}

/** Ticks of a healthy node with a tunnel, and one that finds its browser dead and relaunches it. */
function ticks() {
  const root = mkdtempSync(join(tmpdir(), 'netvm-rehearsal-'))
  process.on('exit', () => rmSync(root, { recursive: true, force: true }))
  const write = (path, text, mode = 0o644) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    chmodSync(join(root, path), mode)
  }
  const program = (name, body) => write(`bin/${name}`, `#!/bin/bash\n${body}\n`, 0o755)
  const stat = (pid, comm, ticks) => `${pid} (${comm}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ${ticks} 0 0`
  const browser = () => {
    write(`proc/${PID}/stat`, stat(PID, 'chromium', 1))
    write(`proc/${PID}/cmdline`, `/usr/lib/chromium/chromium\0--user-data-dir=${root}/var/lib/chromebox/muse\0`)
    mkdirSync(join(root, `proc/${PID}/ns`), { recursive: true })
    symlinkSync(`net:[${statSync('/proc/self/ns/net').ino}]`, join(root, `proc/${PID}/ns/net`))
    const socket = `0100007F:${PORT.toString(16).toUpperCase()} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777`
    write(`proc/${PID}/net/tcp`, `  sl  local_address rem_address st\n   0: ${socket} 1 0 100 0 0 10 0\n`)
    write(`proc/${PID}/net/tcp6`, '  sl  local_address rem_address st\n')
    mkdirSync(join(root, `proc/${PID}/fd`))
    symlinkSync('socket:[777]', join(root, `proc/${PID}/fd/5`))
  }
  const columns = ['Node', 'Agent', 'Netns', 'CDP Port', 'Veth IP (host)', 'Peer IP (netns)', 'Relay Target', 'Status']
  const cells = ['muse', 'a', 'warp-muse', PORT, '10.201.35.1', '10.201.35.2', `127.0.0.1:${PORT}`, 'active']
  const rows = [[...columns, 'Chat Title'], [...columns, ''].map(() => '---'), [...cells, 'Muse']]
  write('etc/netvm/NODES.md', rows.map((row) => `| ${row.join(' | ')} |\n`).join(''))
  write('etc/netvm/netvm.env', 'NETVM_CONFIRM_DELAY=0\nNETVM_EGRESS_URLS=http://chat/\n')
  write('etc/netvm/wireguard/muse.conf', '')
  write('run/netvm/boot-id', 'rehearsal\n')
  write('proc/uptime', '1000.00 0.00\n')
  write('proc/1/stat', stat(1, 'systemd', 1))
  write('proc/1/cmdline', '/sbin/init\0')
  symlinkSync('4194304', join(root, 'proc/self'))
  mkdirSync(join(root, 'run/netns'), { recursive: true })
  symlinkSync('/proc/self/ns/net', join(root, 'run/netns/warp-muse'))
  const page = [{ id: '1', type: 'page', title: 'Muse', url: 'http://chat/', webSocketDebuggerUrl: 'ws://127.0.0.1/devtools/page/1' }]
  write('version', JSON.stringify({ Browser: 'Chrome/1', webSocketDebuggerUrl: 'ws://127.0.0.1/devtools/browser/1' }))
  write('list', JSON.stringify(page))
  // Answers as `ip netns exec … curl …` does: bodies on the descriptors, a report on stdout.
  program('ip', `cat '${root}/version' >&3; cat '${root}/list' >&4; printf '%s 0 200 0.001 \\n' 0 1 2`)
  program('logger', 'cat > /dev/null')
  program(
    'systemctl',
    `case " $* " in
*' start '*) mv '${root}/dead' '${root}/proc/${PID}'; echo ${PID} > '${root}/main' ;;
*' show '*) printf 'Id=chromebox@muse.service\\nActiveState=%s\\nMainPID=%s\\nResult=signal\\nExecMainCode=2\\nExecMainStatus=9\\n' \\
  "$([ -e '${root}/main' ] && echo active || echo failed)" "$(cat '${root}/main' 2>/dev/null || echo 0)" ;;
esac`,
  )
  browser()
  const env = {
    NETVM_ROOT: root,
    NETVM_PROC: join(root, 'proc'),
    PATH: `${root}/bin:${process.env.PATH}`,
    INVOCATION_ID: 'rehearsal',
    SYSTEMD_EXEC_PID: '',
  }
  const receipt = () => JSON.parse(readFileSync(join(root, 'run/netvm/receipts/chromebox-watchdog/muse.json'), 'utf8'))
  const healthy = () => (receipt().verdict.state === 'healthy' ? undefined : receipt().verdict.reason)
  const tick = (check) => ({ argv: ['muse'], env, exit: 0, check })
  const kill = () => renameSync(join(root, `proc/${PID}`), join(root, 'dead'))
  const broughtBack = () => (receipt().actions[0]?.helped ? healthy() : JSON.stringify(receipt().verdict))
  // The second reads what the first wrote, like every tick of a real host.
  return [tick(healthy), tick(() => healthy() ?? kill()), tick(broughtBack)]
}
