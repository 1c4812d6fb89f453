// All of Encore.
#pragma once

#include <encore/bytes.h>
#include <encore/checkpoint.h>
#include <encore/error.h>
#include <encore/memory.h>
#include <encore/policy.h>
#include <encore/scope.h>
