# Of the consumer's own, and of the name of one of Ferry's.
message(FATAL_ERROR "Ferry included a module of the project around it: ${CMAKE_CURRENT_LIST_FILE}")
