package main

// fault marks a step between two changes. Tests replace it with a function that kills the process.
var fault = func(step string) {}
