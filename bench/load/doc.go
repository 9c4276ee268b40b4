// Package load sends requests over keep-alive HTTP/1.1 connections and times the
// answers: at moments fixed beforehand (open loop: latency counts from the intended
// moment, whatever the subject does) or as fast as answers come (closed loop). It
// checks every byte of every answer and tells how late it was itself. One thread
// runs all connections, so that the generator costs little beside its subjects. It
// does not know what it measures.
package load
