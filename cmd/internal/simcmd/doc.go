// Package simcmd is the command line of the simulated engine, shared by the
// binary smg-sim and by "smg sim": flags to Config, listeners, signals, exit
// codes. It must not know what an engine does with its Config.
package simcmd
