// SPDX-License-Identifier: Apache-2.0
// The cell's own network namespace: nothing but a loopback device.
#pragma once
#include "base/err.h"

int net_lo_up(struct err *e) MUST_USE; // needs CAP_NET_ADMIN over the network namespace
