// Holds the precompiled libtorch header that the rooms above grad share (see TuttiTorch.cmake).
