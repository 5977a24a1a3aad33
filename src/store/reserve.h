// SPDX-License-Identifier: Apache-2.0
// A few megabytes of SKEP_HOME that are kept for a full disk: skepd can then start, and skep rm and skep gc free more.
#pragma once

// home: the path of SKEP_HOME. Before its first file is written: gives the reserve up where the disk is full, and takes it
// again where there is room.
void reserve_settle(const char *home);
