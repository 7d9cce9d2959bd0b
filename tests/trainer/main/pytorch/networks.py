"""The image networks of trainer/models as PyTorch modules, with the names that torchvision gives their parts."""

from torch import nn


def conv_norm(inputs, outputs, kernel=1, stride=1, groups=1):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return conv, nn.BatchNorm2d(outputs)


class Residual(nn.Module):
    """A block of a ResNet: convolutions of (outputs, kernel, stride), and a projection where shapes differ."""

    def __init__(self, inputs, convolutions):
        super().__init__()
        width, stride_of_all = inputs, 1
        self.count = len(convolutions)
        for number, (outputs, kernel, stride) in enumerate(convolutions, start=1):
            conv, norm = conv_norm(width, outputs, kernel, stride)
            self.add_module(f"conv{number}", conv)
            self.add_module(f"bn{number}", norm)
            width, stride_of_all = outputs, stride_of_all * stride
        self.relu = nn.ReLU()
        self.downsample = None
        if stride_of_all != 1 or width != inputs:
            self.downsample = nn.Sequential(*conv_norm(inputs, width, 1, stride_of_all))

    def forward(self, x):
        y = x
        for number in range(1, self.count + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            if number < self.count:
                y = self.relu(y)
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes, cifar):
        super().__init__()
        self.conv1, self.bn1 = conv_norm(3, 64, 3, 1) if cifar else conv_norm(3, 64, 7, 2)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for stage, count in enumerate(blocks):
            width, layers = 64 << stage, []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                wide = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)]
                convolutions = wide if bottleneck else [(width, 3, stride), (width, 3, 1)]
                layers.append(Residual(inputs, convolutions))
                inputs = convolutions[-1][0]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def conv_norm_relu6(*arguments, **named):
    return nn.Sequential(*conv_norm(*arguments, **named), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        width = inputs * expansion
        layers = [conv_norm_relu6(inputs, width)] if expansion > 1 else []
        layers.append(conv_norm_relu6(width, width, 3, stride, groups=width))
        self.conv = nn.Sequential(*layers, *conv_norm(width, outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes):
        super().__init__()
        layers, inputs = [conv_norm_relu6(3, 32, 3, 2)], 32
        for expansion, outputs, count, stride in self.stages:
            for i in range(count):
                layers.append(InvertedResidual(inputs, outputs, expansion, stride if i == 0 else 1))
                inputs = outputs
        self.features = nn.Sequential(*layers, conv_norm_relu6(inputs, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class VggA(nn.Module):
    def __init__(self, pixels, classes):
        super().__init__()
        layers, inputs = [], 3
        for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
            if outputs:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                inputs = outputs
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        side = pixels // 32
        self.classifier = nn.Sequential(
            nn.Linear(512 * side * side, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def network(name, pixels, classes):
    if name == "resnet18-cifar":
        return ResNet((2, 2, 2, 2), False, classes, cifar=True)
    if name == "resnet18":
        return ResNet((2, 2, 2, 2), False, classes, cifar=False)
    if name == "resnet50":
        return ResNet((3, 4, 6, 3), True, classes, cifar=False)
    if name == "mobilenet-v2":
        return MobileNetV2(classes)
    if name == "vgg-a":
        return VggA(pixels, classes)
    raise ValueError(name)
