"""Where the rounds begin: fits of a sample from several starts, and the choice between them."""
