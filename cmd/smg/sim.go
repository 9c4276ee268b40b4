package main

func simulate([]string) int { return 0 }
