// All of Encore.
#pragma once

#include <encore/budget.h>
#include <encore/bytes.h>
#include <encore/checkpoint.h>
#include <encore/error.h>
#include <encore/hooks.h>
#include <encore/layers.h>
#include <encore/memory.h>
#include <encore/policy.h>
#include <encore/profiler.h>
#include <encore/scope.h>
#include <encore/segments.h>
#include <encore/sequential.h>
#include <encore/transforms.h>
#include <encore/version.h>
