import type { Supervisor } from './types.ts'

/** Every place this product reads or writes. */
export type Paths = Readonly<ReturnType<typeof paths>>

/**
 * @param root prefix put before every path, without a slash at its end; default `NETVM_ROOT`, or none.
 * `proc` has no prefix (`NETVM_PROC` replaces it): a test with files of its own still has this kernel.
 */
export function paths(root = process.env.NETVM_ROOT ?? '') {
  const r = root === '/' ? '' : root.replace(/\/+$/, '')
  return {
    root: r,
    etc: `${r}/etc/netvm`,
    configFile: `${r}/etc/netvm/netvm.env`,
    nodesDir: `${r}/etc/netvm/nodes`,
    wireguardDir: `${r}/etc/netvm/wireguard`,
    run: `${r}/run/netvm`,
    // Written by tmpfiles: units with ProtectProc= can see another boot id in /proc.
    bootIdFile: `${r}/run/netvm/boot-id`,
    locks: `${r}/run/netvm/locks`,
    receipts: `${r}/run/netvm/receipts`,
    queue: `${r}/run/netvm/cdp-queue`,
    state: `${r}/var/lib/netvm`,
    log: `${r}/var/log/netvm`,
    profiles: `${r}/var/lib/chromebox`,
    // ExecStart= of chromebox@.service.
    browser: `${r}/usr/lib/chromium/chromium`,
    unitDir: `${r}/etc/systemd/system`,
    netnsDir: `${r}/run/netns`,
    proc: process.env.NETVM_PROC ?? '/proc',
    wireguardRun: `${r}/run/wireguard`,
    netnsEtc: `${r}/etc/netns`,
  }
}

export function receiptPath(p: Paths, supervisor: Supervisor, node: string): string {
  return `${p.receipts}/${supervisor}/${node}.json`
}

/** The last receipts that said something new, beside the one that each run replaces. */
export function receiptHistoryPath(p: Paths, supervisor: Supervisor, node: string): string {
  return `${p.receipts}/${supervisor}/history/${node}.json`
}

export function statePath(p: Paths, supervisor: Supervisor, node: string): string {
  return `${p.state}/${supervisor}/${node}.json`
}

/** The browser's profile, and the exact value of its `--user-data-dir=`. */
export function profileDir(p: Paths, node: string): string {
  return `${p.profiles}/${node}`
}

export function nodeEnvPath(p: Paths, node: string): string {
  return `${p.nodesDir}/${node}.env`
}

export function intentPath(p: Paths, node: string): string {
  return `${p.state}/intents/${node}.json`
}

export function pagePath(p: Paths, key: string): string {
  return `${p.state}/pages/${key}.json`
}
