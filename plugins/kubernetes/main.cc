// gpuman-kube-plugin: the device plugin for Kubernetes.
#include "plugins/kubernetes/program.h"

int main(int argc, char** argv) { return gpuman::kubernetes::RunProgram(argc, argv); }
