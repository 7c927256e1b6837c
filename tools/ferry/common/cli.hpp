// CLI11, whole: a subcommand that has parts of it only would not link with one that has more. It takes seconds to
// compile, so headers name CLI::App and no more; what defines flags includes this.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
