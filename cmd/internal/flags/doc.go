// Package flags is the command line of smg: one table of flag definitions, from
// which the urfave/cli flags, serve's --router- variants, the environment variables
// and the help are generated, and the configuration that they fill.
//
// Arguments pass three stages. A pure rewriter settles what urfave/cli cannot:
// several values after one flag, "_" for "-", negative numbers, duplicates,
// suggestions, and the engine flags that serve passes on. Variables of the
// environment are added for flags that were not typed. urfave/cli then parses the
// canonical form and prints help. What is wrong with the line itself ends with exit
// code 2 at the first fault; what is wrong with the values together is gathered by
// Validate and ends with 1.
//
// The package starts nothing and binds nothing. It knows the configuration of the
// launcher, which it fills, and the names of the policies, and nothing else of the
// product: how a worker URL is judged is handed in.
package flags
