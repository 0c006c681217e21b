/* hip-sys's build script looks whether this file exists; its bindings were generated beforehand. */
