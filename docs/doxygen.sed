# Doxygen's input filter: what a header opens with becomes its file's page. Headers keep plain comments, because readers of the
# source are who they are for. The line that is added at the top takes the place of one that only the compiler needs, so that
# warnings have the right line.
# C++: lines of // before `#pragma once`.
1,/^#pragma once/ {
  s|^//   |///       |
  s|^//\([^/]\)|///\1|
  s|^//$|///|
  1s|^///|/// @file\n///|
  /^#pragma once/d
}
# C: the comment before the include guard.
1,/^#define/ {
  /^[ \/]\*/ s|@\([A-Za-z]\)|\\@\1|g
  s|^ \*   | *       |
  1s|^/\* |/** @file\n * |
  /^#define .*_H_$/d
}
