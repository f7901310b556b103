// Says nothing itself: CMake precompiles headers only for a target that has a source for them, and main.cpp cannot take them.
