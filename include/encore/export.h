// Which names the shared libraries show.
#pragma once

#define ENCORE_API __attribute__((visibility("default")))
