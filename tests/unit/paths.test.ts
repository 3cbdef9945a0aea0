import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import {
  intentPath,
  nodeEnvPath,
  pagePath,
  paths,
  profileDir,
  receiptPath,
  statePath,
} from '../../lib/base/paths.ts'

afterEach(() => {
  delete process.env.NETVM_ROOT
  delete process.env.NETVM_PROC
})

test('the places of a real host', () => {
  const p = paths('')
  assert.deepEqual(p, {
    root: '',
    etc: '/etc/netvm',
    configFile: '/etc/netvm/netvm.env',
    nodesDir: '/etc/netvm/nodes',
    wireguardDir: '/etc/netvm/wireguard',
    run: '/run/netvm',
    bootIdFile: '/run/netvm/boot-id',
    locks: '/run/netvm/locks',
    receipts: '/run/netvm/receipts',
    queue: '/run/netvm/cdp-queue',
    state: '/var/lib/netvm',
    log: '/var/log/netvm',
    profiles: '/var/lib/chromebox',
    browser: '/usr/lib/chromium/chromium',
    unitDir: '/etc/systemd/system',
    netnsDir: '/run/netns',
    proc: '/proc',
    wireguardRun: '/run/wireguard',
    netnsEtc: '/etc/netns',
  })
  assert.equal(receiptPath(p, 'agent-health', 'muse'), '/run/netvm/receipts/agent-health/muse.json')
  assert.equal(statePath(p, 'chromebox-watchdog', 'muse'), '/var/lib/netvm/chromebox-watchdog/muse.json')
  assert.equal(profileDir(p, 'muse'), '/var/lib/chromebox/muse')
  assert.equal(nodeEnvPath(p, 'muse'), '/etc/netvm/nodes/muse.env')
  assert.equal(intentPath(p, 'muse'), '/var/lib/netvm/intents/muse.json')
  assert.equal(pagePath(p, 'uplink'), '/var/lib/netvm/pages/uplink.json')
})

test('NETVM_ROOT is a prefix for everything but /proc, which NETVM_PROC replaces', () => {
  process.env.NETVM_ROOT = '/tmp/x/'
  assert.equal(paths().configFile, '/tmp/x/etc/netvm/netvm.env')
  assert.equal(paths().proc, '/proc')
  process.env.NETVM_PROC = '/tmp/proc'
  assert.equal(paths().proc, '/tmp/proc')
  assert.equal(paths('/').etc, '/etc/netvm')
})
