// SPDX-License-Identifier: Apache-2.0
// skep: the command line. Static and without locale or name service, so that it starts in no time.
#include "cli/verbs.h"

int main(int argc, char **argv)
{
	(void)argc;
	return verbs_main(argv);
}
