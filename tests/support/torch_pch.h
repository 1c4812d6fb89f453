// The headers that every test of the torch modules uses; LibTorch's and ours are precompiled.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <encore/encore.h>
