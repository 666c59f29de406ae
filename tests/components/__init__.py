"""Tests of the components and the stacks: pure builders, and whole layers under mocks."""
