// Package admin is smg workers and smg status: a small client of the routes with
// which a running gateway is looked at and its workers are changed. It knows these
// routes and nothing of what is behind them.
package admin
