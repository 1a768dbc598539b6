"""One audit for each of several rewards, and one table of them."""
