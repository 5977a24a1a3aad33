// SPDX-License-Identifier: Apache-2.0
// skep: the command line. Static and without locale or name service, so that it starts in no time.
#include "base/proc.h"
#include "cli/verbs.h"

int main(int argc, char **argv)
{
	(void)argc;
	proc_stretch(0, PROC_QUICK_NS); // somebody waits for each of our answers
	return verbs_main(argv);
}
