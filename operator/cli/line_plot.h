// Lines with error bars as a picture. Pure.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

struct PlotPoint {
  double x = 1;  // from 1 on
  double y = 0;  // from 0 on
  double error = 0;
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
};

struct LinePlot {
  std::string title;
  std::string x;      // what the x axis counts
  std::string unit;   // behind numbers of the y axis
  double scale = 1;   // of these numbers
  double most_x = 2;  // the axes reach at least so far
  double top = 1;
  std::vector<PlotLine> lines;
};

// A whole SVG document, 720 x 360, with the names of the lines beside them.
std::string line_plot(LinePlot plot);

}  // namespace lockstep::cli
