// An assembly file, even an empty one, lets a function be declared without a body: main.go names one of another package.
