// Without an assembly file, the compiler refuses functions without a body.
