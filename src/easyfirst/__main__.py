"""`python -m easyfirst`: the command line where the script `easyfirst` is not on the path."""

from easyfirst.cli.main import main

if __name__ == "__main__":
    main()
