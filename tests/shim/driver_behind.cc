// Nothing: watched_driver is linked with it, and finds the simulated driver under its name.
