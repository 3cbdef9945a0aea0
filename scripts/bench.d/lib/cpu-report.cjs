// Preloaded with node -r: appends the process's own CPU time (µs, its children not counted) and peak memory (KiB) at exit.
const { appendFileSync } = require('node:fs')
process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  appendFileSync(process.env.CPU_REPORT, `${userCPUTime + systemCPUTime} ${maxRSS}\n`)
})
