// gpumand: the daemon.
#include "daemon/program.h"

int main(int argc, char** argv) { return gpuman::daemon::RunProgram(argc, argv); }
