# Puts the page together: style, plotting library and scripts into page.html, and the whole into a C++ source, cut
# where the data goes. Called by src/report/CMakeLists.txt with HERE, LIBRARY, SCRIPTS and OUTPUT.
file(READ ${HERE}/page.html page)
file(READ ${HERE}/style.css style)
file(READ ${LIBRARY} library)
set(script "")
foreach(name IN LISTS SCRIPTS)
  file(READ ${HERE}/${name} part)
  string(APPEND script "${part}")
endforeach()
string(REPLACE "<!-- style -->" "<style>\n${style}</style>" page "${page}")
string(REPLACE "<!-- library -->" "<script>${library}</script>" page "${page}")
string(REPLACE "<!-- script -->" "<script>\n\"use strict\";\n${script}</script>" page "${page}")
string(FIND "${page}" "<!-- data -->" at)
string(LENGTH "<!-- data -->" width)
math(EXPR after "${at} + ${width}")
string(SUBSTRING "${page}" 0 ${at} head)
string(SUBSTRING "${page}" ${after} -1 tail)
file(WRITE ${OUTPUT} "#include \"report/template.h\"

namespace tutti::report {
namespace {
constexpr char kHead[] = R\"TUTTI(${head}<script id=\"data\" type=\"application/json\">)TUTTI\";
constexpr char kTail[] = R\"TUTTI(</script>${tail})TUTTI\";
}  // namespace
constexpr std::string_view kTemplateHead(kHead, sizeof kHead - 1);
constexpr std::string_view kTemplateTail(kTail, sizeof kTail - 1);
}  // namespace tutti::report
")
