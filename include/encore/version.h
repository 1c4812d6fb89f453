// The version of these headers. Semantic: before 1.0 a minor release may change the interface, a patch release may not.
#pragma once

#define ENCORE_VERSION_MAJOR 0
#define ENCORE_VERSION_MINOR 2
#define ENCORE_VERSION_PATCH 0

#define ENCORE_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define ENCORE_VERSION_TEXT(major, minor, patch) ENCORE_VERSION_TEXT_(major, minor, patch)
/// "0.2.0"
#define ENCORE_VERSION ENCORE_VERSION_TEXT(ENCORE_VERSION_MAJOR, ENCORE_VERSION_MINOR, ENCORE_VERSION_PATCH)
