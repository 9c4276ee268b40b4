// Package subject runs what is measured as processes of their own: on a free port
// of the loopback address, awaited until they answer, and ended by their pid in
// every case, also when this process is killed. It does not know what they are.
package subject
