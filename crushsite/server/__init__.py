"""How bytes get in and out: our Daphne, with back pressure and bounds."""
